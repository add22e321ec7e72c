"""The rig's cases, one module for each concept. Each runs in the guest; see ``rig.case``."""
