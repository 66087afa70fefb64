import { TextInput, type TextInputProps } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useState } from 'react'
import { useSearchParams } from 'wouter'

/** A typing that pauses for so long is looked for. */
export const typingMs = 300

/** A field of the address that a page filters by; '' = not set. The other fields stay, and so does the browser's history. */
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

/** A text that a page filters by, in force when the typing pauses. `clean` takes away what must not stand in an address. */
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
    // It was not this field that changed the address, but a link to the page without filters, say.
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
