"""Fibers, which run the loops of engines in turns."""
import greenlet


class Ended(BaseException):
    """Raised in a fiber to end its call."""


class Fiber:
    """A call that runs only between resume and the next pause."""

    def __init__(self, call):
        self.reason, self.call = None, call
        self.fiber = greenlet.greenlet(self.run)

    def run(self):
        try:
            self.call()
        except Ended:
            pass
        finally:
            self.reason = ("ended",)

    def pause(self, *reason):
        self.reason = reason
        self.fiber.parent.switch()

    def resume(self):
        """Continue the call. resume raises the exceptions of the call."""
        self.fiber.parent = greenlet.getcurrent()
        self.fiber.switch()

    def end(self):
        if self.fiber:  # true if the fiber has begun and has not ended
            self.fiber.throw(Ended)
