import { timingSafeEqual } from 'node:crypto'

/** Whether a given text is the expected one, in a time that does not tell how much of it is right. */
export function isEqual(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}
