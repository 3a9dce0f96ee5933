"""Human judgments of items, in batches: protocols, one table of judgments, and what it says.

`export_step` writes the pages of the next step for a crowdsourcing service or a form, `import_answers` adds
the answers to the table, and `survivors`, `funnel`, `agreement` and `predictions` read it. `protocol`
describes the steps; `simulate` lets models or rates take the place of people, and `expected_cost` says what
people would cost.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
