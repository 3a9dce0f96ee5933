"""A small web server on which people answer the pages of a campaign in any browser, without JupyterLab.

`serving` starts and stops it, `handlers` has what it answers, `service` calls the campaign.
"""
