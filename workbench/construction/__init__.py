"""Questions made from novels, in the form of released data sets: to train on, and to test models on.

`childrens_book` makes questions of the Children's Book Test, `cnn_qa` of CNN QA, `sentence_completion` of the
sentence completion challenge, `lambada` passages; all return Items. `novels` reads and tags novels one at a
time, and refuses those that held-out items come from.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
