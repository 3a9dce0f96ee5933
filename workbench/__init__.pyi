# The public names and their homes: read by type checkers, and by lazy_loader at run time.
from . import charts as charts
from . import models as models
from . import runs as runs
from .analysis.annotations import annotate as annotate
from .analysis.contrast import contrast as contrast
from .analysis.statistics import statistics as statistics
from .charts.saving import save as save
from .charts.targets import figure_2 as figure_2
from .datasets import available as available
from .datasets import load as load
from .datasets.books import Book as Book
from .datasets.books import books as books
from .datasets.fetch import fetch as fetch
from .datasets.materials import materials as materials
from .evaluation.contamination import contamination as contamination
from .evaluation.hardest import hardest as hardest
from .evaluation.interchange.export import export_results as export_results
from .evaluation.interchange.import_results import import_results as import_results
from .evaluation.leaderboard import leaderboard as leaderboard
from .evaluation.metrics import evaluate as evaluate
from .evaluation.paper import table as table
from .evaluation.significance import significance as significance
from .items.items import Item as Item
from .items.items import Items as Items
from .items.items import items_from_frame as items_from_frame
from .items.items import items_from_text as items_from_text
from .items.notes import notes as notes
from .models.device_memory import free as free
from .runs.cached import cache as cache
from .runs.store import predict as predict
from .storage.errors import DataError as DataError
from .widgets.ask.ask import ask as ask
from .widgets.browser.browser import browse as browse
from .widgets.compare.compare import compare as compare
from .widgets.explore.explore import explore as explore

__version__: str
