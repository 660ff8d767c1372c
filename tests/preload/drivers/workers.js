// SPDX-License-Identifier: MIT
// workers.js - Node: worker threads that wait for each other, and the thread pool of libuv.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
const zlib = require('zlib');
const crypto = require('crypto');

if (isMainThread) {
    const shared = new Int32Array(new SharedArrayBuffer(8));
    let left = 6, sum = 0;
    for (let i = 0; i < 6; i++) {
        new Worker(__filename, { workerData: { shared, i } }).on('message', (n) => {
            sum += n;
            if (--left) return;
            const data = Buffer.alloc(300000, 'hot lock');
            let jobs = 24, bytes = 0;
            for (let k = 0; k < 24; k++) {
                const done = (error, out) => {
                    bytes += out.length;
                    if (!--jobs) console.log(sum, shared[0], bytes);
                };
                if (k % 2) zlib.deflate(data, done);
                else crypto.pbkdf2('a', 'b', 3000, 64, 'sha256', done);
            }
        });
    }
} else {
    const { shared, i } = workerData;
    for (let k = 0; k < 20000; k++) Atomics.add(shared, 0, 1);
    parentPort.postMessage(i);
}
