// SPDX-License-Identifier: MIT
// Locks.java - Java threads: monitors, java.util.concurrent, the collector and the compiler at work.
import java.util.ArrayList;
import java.util.concurrent.*;
import java.util.concurrent.locks.ReentrantLock;

public class Locks {
    static long sum, other;  // one for each lock
    static final ReentrantLock lock = new ReentrantLock();

    static long churn(int n) {
        ArrayList<byte[]> kept = new ArrayList<>();
        long bytes = 0;
        for (int i = 0; i < n; i++) {
            byte[] b = new byte[1000 + i % 1000];
            bytes += b.length;
            if (i % 10 == 0) kept.add(b);
        }
        return bytes;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        ArrayList<Future<Long>> futures = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
            futures.add(pool.submit(() -> {
                for (int i = 0; i < 20000; i++) {
                    synchronized (Locks.class) { sum++; }
                    lock.lock();
                    try { other++; } finally { lock.unlock(); }
                }
                return churn(20000);
            }));
        }
        long bytes = 0;
        for (Future<Long> f : futures) bytes += f.get();
        pool.shutdown();
        System.out.println(sum + " " + other + " " + bytes);
    }
}
