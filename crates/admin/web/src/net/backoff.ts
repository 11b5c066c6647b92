// Delays between attempts to reconnect.

const DELAYS = [1000, 2000, 4000, 8000, 15_000];

/** Returns the delay before the next attempt; `chance` from 0 to 1 spreads many pages by a fifth. */
export function reconnectDelay(failures: number, chance: number): number {
  const delay = DELAYS[Math.min(failures, DELAYS.length - 1)] ?? 15_000;
  return Math.round(delay * (0.8 + 0.4 * chance));
}
