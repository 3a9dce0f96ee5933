"""Files, caches and parallel work: what every other package stands on.

`files` has the data folder and atomic writing of files and folders, `cache` tables on disk by key, `parallel`
chunks of work in processes or on a Dask cluster, `progress` the progress bar.
"""
