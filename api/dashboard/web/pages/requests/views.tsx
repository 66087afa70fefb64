import { Button, Group, TextInput } from '@mantine/core'
import { useLocalStorage } from '@mantine/hooks'
import { IconX } from '@tabler/icons-react'
import { useState } from 'react'
import { useSearch, useSearchParams } from 'wouter'
import { usePlace } from '../../session.tsx'

type View = { name: string; query: string }

const usual: View[] = [
  { name: 'All', query: '' },
  { name: 'Errors, last 24 hours', query: 'status=error&span=24h' },
  { name: 'Rate limited', query: 'status=429' },
  { name: 'Slow', query: 'min_duration_ms=10000' },
  { name: 'Expensive', query: 'min_cost_usd=0.1' },
]
const maxViews = 20
const maxNameLength = 40

/** Named filters: the usual ones, and for members those that this browser has saved for the organisation. */
export function Views() {
  const { id, isOperatorView } = usePlace()
  const search = useSearch()
  const [, setAddress] = useSearchParams()
  const [saved, setOwn] = useLocalStorage<View[]>({ key: `headgate-views-${id}`, defaultValue: [] })
  const own = isOperatorView ? [] : saved
  const [name, setName] = useState<string | null>(null)
  const isKnown = [...usual, ...own].some(({ query }) => query === search)
  const save = () => {
    const trimmed = name?.trim().slice(0, maxNameLength)
    if (trimmed)
      setOwn([...own.filter(view => view.name !== trimmed), { name: trimmed, query: search }].slice(-maxViews))
    setName(null)
  }
  return (
    <Group gap={6} role="group" aria-label="Views">
      {[...usual, ...own].map((view, i) => (
        <Button.Group key={view.name}>
          <Button
            size="compact-xs"
            variant={view.query === search ? 'light' : 'default'}
            aria-pressed={view.query === search}
            onClick={() => setAddress(new URLSearchParams(view.query), { replace: true })}
          >
            {view.name}
          </Button>
          {i >= usual.length && (
            <Button
              size="compact-xs"
              variant="default"
              px={4}
              aria-label={`Delete the view “${view.name}”`}
              onClick={() => setOwn(own.filter(other => other !== view))}
            >
              <IconX size={12} aria-hidden />
            </Button>
          )}
        </Button.Group>
      ))}
      {!isKnown && !isOperatorView && name === null && (
        <Button size="compact-xs" variant="subtle" onClick={() => setName('')}>
          Save view
        </Button>
      )}
      {name !== null && (
        <form
          onSubmit={event => {
            event.preventDefault()
            save()
          }}
        >
          <TextInput
            size="xs"
            w={160}
            aria-label="Name of the view"
            placeholder="Name, then Enter"
            maxLength={maxNameLength}
            data-autofocus
            value={name}
            onChange={event => setName(event.currentTarget.value)}
            onBlur={save}
          />
        </form>
      )}
    </Group>
  )
}
