"""Data sets made from novels as LAMBADA, the Children's Book Test, sentence completion and CNN QA were made.

`read_novels` checks and splits novels, `build` makes all sets of them with one `Manifest`. `lambada`,
`childrens_book`, `sentence_completion` and `cnn_qa` make one kind of items each, `CandidatePassages` has all
passages of LAMBADA's shape on disk. What people judge is in `workbench.people`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
