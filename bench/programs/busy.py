# SPDX-License-Identifier: Apache-2.0
"""A program for CPython: generators, callbacks out of C, exceptions, two threads."""
import json, re, threading, functools, hashlib, zlib
class A:
    def __init__(self, x): self.x = x
    def __lt__(self, other): return self.x < other.x
    @property
    def y(self): return self.x * 2
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def gen(n):
    for i in range(n): yield A(i * 7919 % 1009)
def work():
    i = 0
    while True:
        i += 1
        json.loads(json.dumps([{'a': k, 'b': str(k)} for k in range(100)]))
        sorted(gen(200)); sum(a.y for a in gen(100))
        re.sub(r'([a-z]+)(\d+)', lambda m: m[2] + m[1], 'abc123 def456 ' * 10)
        fib(12)
        try: {}['x']
        except KeyError as e: str(e)
        if i % 10 == 0: hashlib.sha256(b'x' * 5000).digest(); zlib.compress(b'abc' * 3000); json.loads(json.dumps({'k': list(range(50))}, indent=1))
        list(map(functools.partial(pow, 3), range(50)))
threading.Thread(target=work, daemon=True).start()
work()
