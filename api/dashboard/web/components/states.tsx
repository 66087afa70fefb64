import { Alert, Button, Group, Skeleton, Stack, Text } from '@mantine/core'
import { IconAlertTriangle } from '@tabler/icons-react'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError, isOutage } from '../api.ts'
import { WithCode } from './with-code.tsx'

/** An error with the gateway's message; what follows from it is inside. */
export function ErrorAlert({ error, children }: { error: Error; children: ReactNode }) {
  return (
    <Alert
      role="alert"
      color="red"
      variant="light"
      icon={<IconAlertTriangle aria-hidden />}
      title={<WithCode>{error.message}</WithCode>}
    >
      {children}
    </Alert>
  )
}

/** An error with the gateway's message and the request id. */
export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  const requestId = error instanceof ApiError ? error.requestId : null
  return (
    <ErrorAlert error={error}>
      <Group gap="sm">
        {requestId && (
          <Text size="xs" c="dimmed">
            Request {requestId}
          </Text>
        )}
        {retry && (
          <Button size="compact-xs" variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </Group>
    </ErrorAlert>
  )
}

/** An empty state with a hint. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Stack align="center" gap="xs" py="xl" ta="center">
      <Text fw={600}>{title}</Text>
      {children && (
        <Text c="dimmed" size="sm" maw={480} component="div">
          {children}
        </Text>
      )}
    </Stack>
  )
}

export function Loading({ rows = 5 }: { rows?: number }) {
  const names = Array.from({ length: rows }, (_, index) => `row ${index}`)
  return (
    <Stack gap="xs" aria-busy="true">
      <output className="visually-hidden">Loading</output>
      {names.map(name => (
        <Skeleton key={name} height={28} />
      ))}
    </Stack>
  )
}

/** Shows a query's data once it is loaded; until then its loading state or its error. */
export function Show<T>({
  query,
  children,
  rows,
}: {
  query: UseQueryResult<T, Error>
  children: (data: T) => ReactNode
  rows?: number
}) {
  return query.data === undefined ? <Pending query={query} rows={rows} /> : children(query.data)
}

/** The loading state or the error of a query without data. An outage has one notice on the page, and leaves the skeleton. */
export function Pending<T>({ query, rows }: { query: UseQueryResult<T, Error>; rows?: number }) {
  if (query.error && !isOutage(query.error)) return <Failure error={query.error} retry={() => void query.refetch()} />
  return <Loading rows={rows} />
}
