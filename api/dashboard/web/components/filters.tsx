import { Box, Button, TextInput, type TextInputProps } from '@mantine/core'
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks'
import { IconFilter } from '@tabler/icons-react'
import { type ReactNode, useId, useState } from 'react'
import { useSearchParams } from 'wouter'

/** The debounce of typed filters. */
export const typingMs = 300

/** The filters of a page: on phones behind a button that has the number of those in use. `names`: their query parameters. */
export function FilterPanel({ names, children }: { names: readonly string[]; children: ReactNode }) {
  const [address] = useSearchParams()
  const [isOpen, { toggle }] = useDisclosure()
  const id = useId()
  const used = names.filter(name => address.get(name)).length
  return (
    <>
      <Button
        hiddenFrom="xs"
        size="xs"
        variant={used > 0 ? 'light' : 'default'}
        style={{ alignSelf: 'flex-start' }}
        leftSection={<IconFilter size={14} aria-hidden />}
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={toggle}
      >
        Filters{used > 0 && ` (${used})`}
      </Button>
      <Box id={id} visibleFrom={isOpen ? undefined : 'xs'}>
        {children}
      </Box>
    </>
  )
}

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
