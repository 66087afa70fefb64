import { createContext, type Dispatch, type SetStateAction, useContext, useEffect, useState } from 'react'

/** The values of the playground's forms, by name, while the page is open. */
export const KeptContext = createContext<Map<string, unknown>>(new Map())

/** State that survives switching tabs. */
export function useKept<T>(name: string, initial: T): [T, Dispatch<SetStateAction<T>>] {
  const kept = useContext(KeptContext)
  const [value, setValue] = useState<T>(() => (kept.has(name) ? (kept.get(name) as T) : initial))
  useEffect(() => void kept.set(name, value), [kept, name, value])
  return [value, setValue]
}
