import { createContext, type Dispatch, type SetStateAction, useContext, useEffect, useState } from 'react'

/** The values of the playground's forms, by name, while the page is open. */
export const PersistedFieldsContext = createContext<Map<string, unknown>>(new Map())

/** State that survives switching tabs. */
export function usePersistedField<T>(name: string, initial: T): [T, Dispatch<SetStateAction<T>>] {
  const values = useContext(PersistedFieldsContext)
  const [value, setValue] = useState<T>(() => (values.has(name) ? (values.get(name) as T) : initial))
  useEffect(() => void values.set(name, value), [values, name, value])
  return [value, setValue]
}
