"""Loops of engines that run in turns."""
import threading


class Ended(BaseException):
    """The run is over."""


class Fiber:
    """A thread that runs only between resume and the next pause."""

    def __init__(self, call):
        self.mine, self.theirs = threading.Semaphore(0), threading.Semaphore(0)
        self.reason, self.error, self.ending = None, None, False
        self.call = call
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        self.mine.acquire()
        try:
            if not self.ending:
                self.call()
        except Ended:
            pass
        except BaseException as e:  # it is raised where the fiber was resumed
            self.error = e
        self.reason = ("ended",)
        self.theirs.release()

    def pause(self, *reason):
        self.reason = reason
        self.theirs.release()
        self.mine.acquire()
        if self.ending:
            raise Ended

    def resume(self):
        self.mine.release()
        self.theirs.acquire()
        if self.error:
            raise self.error

    def end(self):
        if self.reason != ("ended",):
            self.ending = True
            self.mine.release()
            self.theirs.acquire()
