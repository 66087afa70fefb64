import { Button, Group, Stack } from '@mantine/core'
import { Link } from 'wouter'
import type { RequestDetail } from '../../../wire/requests.ts'
import { Page } from '../../components/page.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Trail } from '../../components/work/parts.tsx'
import { usePlace } from '../../session.tsx'
import { Outcome } from './outcome.tsx'
import { useRequest } from './queries.ts'
import { Request } from './request.tsx'
import { typeName } from './types.ts'

const chatTypes = ['chat', 'messages', 'responses']

/** One entry of the request log. */
export function RequestPage({ id }: { id: string }) {
  const { home } = usePlace()
  const request = useRequest(id)
  const { data } = request
  return (
    <Stack gap="sm">
      <Trail href={`${home}/requests`} list="Requests">
        {id}
      </Trail>
      <Page
        id={id}
        title={data ? `${typeName(data.type)} request` : 'Request'}
        description={data && <Verdict request={data} />}
        actions={
          data &&
          chatTypes.includes(data.type) &&
          data.model !== '' && (
            <Button
              component={Link}
              variant="default"
              href={`${home}/playground/chat?model=${encodeURIComponent(data.model)}`}
            >
              Open in playground
            </Button>
          )
        }
      >
        <Show query={request}>{found => <Request request={found} />}</Show>
      </Page>
    </Stack>
  )
}

/** The outcome of a request in a line. */
export function Verdict({ request: { status, environment, model, provider } }: { request: RequestDetail }) {
  return (
    <Group gap="xs">
      <Outcome status={status} />
      <Status value={environment} />
      {model || 'no model'}
      {provider !== null && ` at ${provider}`}
    </Group>
  )
}
