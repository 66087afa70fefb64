import { Anchor, Box, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { Link } from 'wouter'
import type { RequestDetail } from '../../../wire/requests.ts'
import { ApiError } from '../../api.ts'
import { Snippets } from '../../components/copy.tsx'
import { Section } from '../../components/facts.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Trail } from '../../components/work/parts.tsx'
import { usePlace } from '../../session.tsx'
import { requestSnippets } from '../playground/panels.tsx'
import { Actions } from './actions.tsx'
import { bodyOf, outlineOf } from './body.ts'
import { Content, useContent } from './content.tsx'
import { Outcome } from './outcome.tsx'
import { hasCode, paths } from './paths.ts'
import { useRequest } from './queries.ts'
import { Request } from './request.tsx'
import { typeName } from './types.ts'

const maxCodeHeight = 420

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
      {data ? (
        <Found id={id} request={data} />
      ) : (
        <Page id={id} title="Request">
          {isNotFound(request.error) ? <NotFound home={home} /> : <Show query={request}>{() => null}</Show>}
        </Page>
      )}
    </Stack>
  )
}

function isNotFound(error: Error | null): boolean {
  return error instanceof ApiError && error.status === 404
}

function NotFound({ home }: { home: string }) {
  return (
    <Empty title="No request has this ID">
      A request is found by the <code>x-request-id</code> of its response, its generation ID, or the provider’s ID.
      Requests of other organisations are not shown, requests with an unknown key are not logged, and old ones are
      deleted.{' '}
      <Anchor component={Link} href={`${home}/requests`} inherit underline="always">
        Search the requests
      </Anchor>
    </Empty>
  )
}

function Found({ id, request }: { id: string; request: RequestDetail }) {
  const [isShown, setShown] = useState(false)
  const content = useContent(request, isShown)
  const body = content.data && !request.content?.input_truncated ? bodyOf(content.data.input) : null
  return (
    <Page
      id={id}
      title={`${typeName(request.type)} request`}
      description={<Verdict request={request} />}
      actions={<Actions request={request} body={body} />}
    >
      <Request request={request}>
        <Content request={request} query={content} isShown={isShown} onShow={() => setShown(true)} />
        <RequestCode request={request} body={body} />
      </Request>
    </Page>
  )
}

/** The request as code: with its input if that is at hand, otherwise with a placeholder. */
function RequestCode({ request, body }: { request: RequestDetail; body: object | null }) {
  if (!hasCode(request)) return null
  const path = paths[request.type]!
  return (
    <Section title="Code" id="code">
      {body === null && (
        <Text size="sm" c="dimmed" mb="xs">
          The model and the settings of this request, with a placeholder for its input.
        </Text>
      )}
      <Box mah={maxCodeHeight} style={{ overflowY: 'auto' }}>
        <Snippets snippets={requestSnippets({ path, body: body ?? outlineOf(request), stream: request.streamed })} />
      </Box>
    </Section>
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
