"""Files, caches and parallel work, on which every other package builds.

`errors` has the one error, `files` the data folder and atomic writing of files and folders, `cache` tables on
disk by key, `packages` what others add, `parallel` chunks of work in processes or on a Dask
cluster, `progress` the progress bar.
"""
