import { createContext, type Dispatch, type SetStateAction, useContext, useEffect, useState } from 'react'

/** What the forms of the playground hold, by name, for as long as the page is open. */
export const KeptContext = createContext<Map<string, unknown>>(new Map())

/** State that is still there when its tab is visited again. */
export function useKept<T>(name: string, initial: T): [T, Dispatch<SetStateAction<T>>] {
  const kept = useContext(KeptContext)
  const [value, setValue] = useState<T>(() => (kept.has(name) ? (kept.get(name) as T) : initial))
  useEffect(() => void kept.set(name, value), [kept, name, value])
  return [value, setValue]
}
