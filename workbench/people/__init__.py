"""Human judgments of items: campaigns, protocols, costs and agreement.

`Campaign` is one SQLite database that gives out pages and keeps every answer; `protocol` describes the steps.
`simulate` lets models or rates take the place of people, `expected_cost` says what a campaign would cost,
`export_pages` and `import_pages` exchange pages with crowdsourcing services.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
