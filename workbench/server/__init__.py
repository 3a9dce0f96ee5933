"""A small web server for campaigns: people answer in any browser, without JupyterLab.

`serving` starts and stops it, `handlers` has what it answers, `service` calls the campaign.
"""
