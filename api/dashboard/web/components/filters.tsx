import { TextInput, type TextInputProps } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useState } from 'react'
import { useSearchParams } from 'wouter'

/** The debounce of typed filters. */
export const typingMs = 300

/** A query parameter that filters a page; '' = not set. Other parameters are kept, and no history entry is added. */
export function useFilter(name: string): [value: string, set: (value: string) => void] {
  const [address, setAddress] = useSearchParams()
  const set = (value: string) =>
    setAddress(
      params => {
        const next = new URLSearchParams(params)
        if (value === '') next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  return [address.get(name) ?? '', set]
}

/** A debounced text filter. `clean` removes what must not be in a URL. */
export function TextFilter({
  name,
  clean = text => text,
  ...field
}: { name: string; clean?: (text: string) => string } & Omit<TextInputProps, 'name'>) {
  const [value, set] = useFilter(name)
  const [typed, setTyped] = useState(value)
  const [seen, setSeen] = useState(value)
  const apply = useDebouncedCallback((text: string) => set(clean(text.trim())), typingMs)
  if (value !== seen) {
    setSeen(value)
    // The URL was changed from elsewhere, for example by a link to the page without filters.
    if (value !== clean(typed.trim())) setTyped(value)
  }
  return (
    <TextInput
      {...field}
      value={typed}
      onChange={event => {
        setTyped(event.currentTarget.value)
        apply(event.currentTarget.value)
      }}
    />
  )
}
