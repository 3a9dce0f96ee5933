from . import childrens_book as childrens_book
from . import cnn_qa as cnn_qa
from . import lambada as lambada
from . import sentence_completion as sentence_completion
from .manifest import Manifest as Manifest
from .novels import split as split
from .shelf import Shelf as Shelf
from .shelf import read_shelf as read_shelf
