from . import childrens_book as childrens_book
from . import cnn_qa as cnn_qa
from . import lambada as lambada
from . import sentence_completion as sentence_completion
from .novels import split as split
