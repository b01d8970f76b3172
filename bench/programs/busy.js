// SPDX-License-Identifier: Apache-2.0
// A program for Node: JSON, regular expressions, classes, promises, zlib and crypto.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
class A { constructor(x) { this.x = x; } m(k) { return this.x + k; } } class B extends A { m(k) { return super.m(k) * 2; } }
const re = /([a-z]+)-(\d+)/g; let kept = 0; const crypto = require('crypto'); const zlib = require('zlib');
function step(i) {
  const o = JSON.parse(JSON.stringify([...Array(200).keys()].map((k) => ({ k, s: 'item-' + k }))));
  o.sort((a, b) => b.k - a.k); kept += o.map((e) => e.s.replace(re, '$2$1')).join().length;
  kept += fib(16); kept += [new A(1), new B(2)].reduce((s, e) => s + e.m(i), 0);
  try { null.x; } catch (e) { kept += e.stack.length; }
  if (i % 10 == 0) kept += zlib.gzipSync(Buffer.from('abc'.repeat(2000))).length + crypto.createHash('sha256').update('x'.repeat(9000)).digest().length;
  if (i % 50 == 0) { setImmediate(step, i + 1); } else if (i % 7 == 0) { Promise.resolve().then(() => step(i + 1)); } else return step2(i + 1);
}
function step2(i) { for (let k = 0; k < 6; k++) kept += fib(10); setImmediate(step, i); }
step(1);
