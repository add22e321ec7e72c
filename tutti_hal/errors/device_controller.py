"""The controller that is a kernel of ours."""

from __future__ import annotations

from tutti_hal.errors.nvme import ControllerError


class DeviceControllerError(ControllerError):
    """The device controller refused what it was asked for."""

    id = "TT-DEVICE-CONTROLLER"


class DeviceControllerOptionInvalid(DeviceControllerError):
    """An option of the device controller is out of its range."""

    id = "TT-DEVICE-CONTROLLER-OPTION"


class DeviceControllerCrowded(DeviceControllerError):
    """Its blocks would leave no multiprocessor for the kernels that it is to serve."""

    id = "TT-DEVICE-CONTROLLER-CROWDED"


class DeviceControllerServing(DeviceControllerError):
    """Its kernel runs, and what was asked for could wait for that kernel's end, or would change what it reads."""

    id = "TT-DEVICE-CONTROLLER-SERVING"


class DeviceControllerEnded(DeviceControllerError):
    """Its kernel ended before it was told to: its time was over."""

    id = "TT-DEVICE-CONTROLLER-ENDED"
