// SPDX-License-Identifier: Apache-2.0
// A Java program with lambdas, recursion, exceptions and two threads.
import java.util.*;
import java.util.function.*;
public class Busy {
  interface Shape { double area(int n); }
  record Square(double s) implements Shape { public double area(int n) { double r = s; for (int i = 0; i < n; i++) r = r * 1.0001 + Math.sin(i); return r; } }
  static double recurse(int d) { return d == 0 ? 1 : recurse(d - 1) * 1.1 + new Square(d).area(20); }
  static int throwing(int n) { if (n == 0) throw new IllegalStateException("x"); return throwing(n - 1) + 1; }
  static void work() {
    double kept = 0; Random random = new Random(1);
    for (int i = 0; ; i++) {
      Map<String, Integer> counts = new TreeMap<>();
      List<String> words = new ArrayList<>();
      for (int k = 0; k < 300; k++) words.add(Integer.toString(random.nextInt(10000)));
      Collections.sort(words);
      for (String w : words) counts.merge(w.substring(0, 1), 1, Integer::sum);
      kept += words.stream().mapToInt(String::length).filter(n -> n > 2).sum() + recurse(30);
      try { throwing(20); } catch (IllegalStateException e) { kept += e.getStackTrace().length; }
      kept += String.format("%d %s %.3f", i, "abc", kept).length();
    }
  }
  public static void main(String[] a) throws Exception { Thread t = new Thread(Busy::work, "other"); t.setDaemon(true); t.start(); work(); }
}
