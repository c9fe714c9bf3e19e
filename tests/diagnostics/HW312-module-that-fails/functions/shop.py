PRICES = {"tea": 2}["coffee"]
