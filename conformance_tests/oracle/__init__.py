"""The suite's own knowledge of NVMe, from the specification's text, and a host made of it: what judges the product's.

``nvme`` imports nothing of the product, so judges use it too. ``host`` drives controllers with it.
"""
