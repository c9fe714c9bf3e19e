class Counting:
    def process(self, record):
        pass
