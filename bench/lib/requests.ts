import { readFileSync } from 'node:fs'
import { secretOf } from './many-keys.ts'
import { postRequest } from './request.ts'

/** What a driver sends, in a file of JSON: one body to one path, under the subject's headers or under so many keys in turn, from `firstKey` on. */
export type RequestSet = { path: string; headers: string[]; body: string; keys: number; firstKey?: number }

/** Reads a file of requests; gives what makes the next request's text. */
export function readRequests(file: string): () => string {
  const { path, headers, body, keys, firstKey = 0 } = JSON.parse(readFileSync(file, 'utf8')) as RequestSet
  if (keys === 0) {
    const text = postRequest(path, headers, body)
    return () => text
  }
  const [before, after] = postRequest(path, [`authorization: Bearer ${secretOf(0)}`], body).split(secretOf(0))
  // Every run begins elsewhere: short ones would use the same few keys again and again.
  let number = Math.floor(Math.random() * keys)
  return () => {
    const secret = secretOf(firstKey + number)
    number = (number + 1) % keys
    return before + secret + after
  }
}
