"""wholememory.torch.wholememory_pytorch - the module under the name that WholeMemory gave it."""
from .. import *        # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from . import _ops      # noqa: F401  (the ops are there when this is imported)
