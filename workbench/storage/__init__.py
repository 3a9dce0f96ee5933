"""Files, caches and parallel work, on which every other package builds.

`errors` has the one error, `paths` the locations, `files` reading and atomic writing of files and folders,
`cache` tables on disk by key, `packages` versions and what others add, `parallel` chunks of work in processes
or on a Dask cluster, `progress` the progress bar.
"""
