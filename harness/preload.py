"""What the fork server imports before it forks, so that no worker pays for it.

Importing is all that may happen here: a thread, a runtime or a device that were started before a
fork would be broken after it.
"""

import torch._dynamo
import torch._functorch.aot_autograd
import transformers.models.auto.modeling_auto
import transformers.models.bert.modeling_bert  # stands for what every model's module imports

import harness.worker
import suites.claims.run
import suites.opinfo.trial
from harness import devices

__all__ = ["harness", "suites", "torch", "transformers"]

devices.preload()
