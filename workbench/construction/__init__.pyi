from . import childrens_book as childrens_book
from . import cnn_qa as cnn_qa
from . import lambada as lambada
from .candidates import Candidates as Candidates
from .novels import split as split
