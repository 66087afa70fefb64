import { Button, Group, TextInput } from '@mantine/core'
import { IconX } from '@tabler/icons-react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { useSearch, useSearchParams } from 'wouter'
import type { RequestView, RequestViews } from '../../../wire/requests.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const usual: RequestView[] = [
  { name: 'All', query: '' },
  { name: 'Errors, last 24 hours', query: 'status=error&span=24h' },
  { name: 'Rate limited', query: 'status=429' },
  { name: 'Slow', query: 'min_duration_ms=10000' },
  { name: 'Expensive', query: 'min_cost_usd=0.1' },
]
const maxNameLength = 40

/** Named filters: the usual ones, and those that the member has saved in the organisation. */
export function Views() {
  const { isOperatorView } = usePlace()
  const search = useSearch()
  const [, setAddress] = useSearchParams()
  const { own, save, remove } = useOwnViews(!isOperatorView)
  const [name, setName] = useState<string | null>(null)
  const views = [...usual.map(view => ({ ...view, isOwn: false })), ...own.map(view => ({ ...view, isOwn: true }))]
  const isKnown = views.some(({ query }) => query === search)
  const saveNamed = () => {
    const trimmed = name?.trim().slice(0, maxNameLength)
    if (trimmed) save({ name: trimmed, query: search })
    setName(null)
  }
  return (
    <Group gap={6} role="group" aria-label="Views">
      {views.map(view => (
        <Button.Group key={`${view.isOwn} ${view.name}`}>
          <Button
            size="compact-xs"
            variant={view.query === search ? 'light' : 'default'}
            aria-pressed={view.query === search}
            onClick={() => setAddress(new URLSearchParams(view.query), { replace: true })}
          >
            {view.name}
          </Button>
          {view.isOwn && (
            <Button
              size="compact-xs"
              variant="default"
              px={4}
              aria-label={`Delete the view “${view.name}”`}
              onClick={() => remove(view.name)}
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
            saveNamed()
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
            onBlur={saveNamed}
          />
        </form>
      )}
    </Group>
  )
}

/** The member's views, which the gateway keeps; those that earlier versions kept in the browser are handed over. */
function useOwnViews(enabled: boolean) {
  const { id, base } = usePlace()
  const queries = useQueryClient()
  const queryKey = [id, 'request-views']
  const path = `${base}/request-views`
  const views = useQuery({ queryKey, queryFn: ({ signal }) => call<RequestViews>(path, { signal }), enabled })
  const onSuccess = (answer: RequestViews) => queries.setQueryData(queryKey, answer)
  const { mutate: save } = useMutation({
    mutationFn: (view: RequestView) => call<RequestViews>(path, { method: 'POST', body: view }),
    onSuccess,
  })
  const { mutate: remove } = useMutation({
    mutationFn: (name: string) => call<RequestViews>(`${path}/${encodeURIComponent(name)}`, { method: 'DELETE' }),
    onSuccess,
  })
  const isLoaded = views.data !== undefined
  useEffect(() => {
    if (isLoaded) for (const view of takeStored(`headgate-views-${id}`)) save(view)
  }, [isLoaded, id, save])
  return { own: views.data?.data ?? [], save, remove }
}

function takeStored(key: string): RequestView[] {
  try {
    const stored = JSON.parse(localStorage.getItem(key) ?? '[]') as RequestView[]
    localStorage.removeItem(key)
    return stored
  } catch {
    return []
  }
}
