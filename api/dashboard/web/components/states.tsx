import { Alert, Anchor, Button, Group, Skeleton, Stack, Text } from '@mantine/core'
import { IconAlertTriangle } from '@tabler/icons-react'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError, isOutage, isSessionEnd, noAnswer } from '../api.ts'
import { WithCode } from './with-code.tsx'

/** An error with the gateway's message; what follows from it is inside. */
export function ErrorAlert({ message, children }: { message: string; children: ReactNode }) {
  return (
    <Alert
      role="alert"
      color="red"
      variant="light"
      icon={<IconAlertTriangle aria-hidden />}
      title={<WithCode>{message}</WithCode>}
    >
      {children}
    </Alert>
  )
}

/** An error with the gateway's message and the request id. */
export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  if (isSessionEnd(error)) return <SessionEnded />
  const requestId = error instanceof ApiError ? error.requestId : null
  const isUnknown = error instanceof ApiError && error.code === noAnswer
  return (
    <ErrorAlert message={error.message}>
      <Group gap="sm">
        {isUnknown && (
          <Text size="sm">
            If the connection was lost meanwhile, the change may have been made: look before you repeat it.
          </Text>
        )}
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

/** In a form: a page without input leads to the sign-in by itself. */
function SessionEnded() {
  return (
    <ErrorAlert message="Your session has ended.">
      <Text size="sm">
        What you entered stays here.{' '}
        <Anchor inherit href={`/dashboard/sign-in?next=${encodeURIComponent(location.pathname)}`} target="_blank">
          Sign in in another tab
        </Anchor>
        , then try again here.
      </Text>
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
  if (query.error && !isOutage(query.error)) {
    // What does not exist will not at the next try either.
    const isMissing = query.error instanceof ApiError && query.error.status === 404
    return <Failure error={query.error} {...(!isMissing && { retry: () => void query.refetch() })} />
  }
  return <Loading rows={rows} />
}
