"""A small valid release of each data set: read whole and damaged, and loaded on the pages."""

import builders as b

PLAIN = [f"{line} {number}" for number in range(3) for line in b.PLAIN]
RELEASES = {
    "lambada": {"release/lambada_development_plain_text.txt": b.text(PLAIN), "release/README": "x"},
    "cbt": {"CBTest/data/cbtest_NE_valid_2000ex.txt": b.cbt()},
    "msrcc": {f"MSR/{name}": text for name, text in b.OFFICIAL.items()},
    "cnnqa": {f"cnn/questions/validation/{n}.question": b.cnn() for n in "ab"},
}
"""Files by name, by data set."""
