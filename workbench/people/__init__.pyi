from .assignment import RefusalError as RefusalError
from .assignment import Subject as Subject
from .campaign import Campaign as Campaign
from .protocols import Protocol as Protocol
from .protocols import Step as Step
from .protocols import protocol as protocol
from .tasks import Page as Page
from .tasks import Task as Task
