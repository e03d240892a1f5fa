"""A shop with a day behind it: an app and a store full of its jobs, for the dashboard's demo, its
screenshots and its tests."""

from .flows import ShopFlows
from .seed import seed_shop
from .tasks import ShopTasks, shop_app

__all__ = ["ShopFlows", "ShopTasks", "seed_shop", "shop_app"]
