"""The interface of torch_directml 0.2.5 on the stand-in: importing it makes the device."""

import os
import sys
import time

import torch

time.sleep(float(os.environ.get("STAND_IN_IMPORT_SECONDS", "0")))
torch.utils.rename_privateuse1_backend("privateuseone")  # an accelerator for autograd
torch.ops.load_library(os.environ["STAND_IN_LIBRARY"])

NAMES = ["Stand-in that doubles everything\0", "Stand-in\0"]


def is_available():
    return True


def device_count():
    return len(NAMES)


def current_device():
    return 0


def default_device():
    return 1


def device_name(device_id):
    return NAMES[device_id]


def has_float64_support(device_id=0):
    return "no-float64" not in os.environ.get("STAND_IN_VICES", "").split()


def disable_tiled_resources(is_disabled):
    pass


# torch.manual_seed asks for these, and warns where a device has none.
def _is_in_bad_fork():
    return False


def manual_seed_all(seed):
    pass


def device(device_id=None):
    return torch.device("privateuseone", default_device() if device_id is None else device_id)


torch._register_device_module("privateuseone", sys.modules[__name__])
