"""The components of ``en_narrative``, our spaCy pipeline for narrative prose."""
