"""Networks that are trained here; every module in this folder is all torch."""
