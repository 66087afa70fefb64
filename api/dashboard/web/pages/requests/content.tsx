import { Alert, Anchor, Box, Button, Group, Stack, Tabs, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { type UseQueryResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import type { ContentFacts, RequestContent } from '../../../wire/contents.ts'
import type { RequestDetail } from '../../../wire/requests.ts'
import { call } from '../../api.ts'
import { Confirm } from '../../components/confirm.tsx'
import { CodeBox } from '../../components/copy.tsx'
import { Section } from '../../components/facts.tsx'
import { Failure, Loading } from '../../components/states.tsx'
import { bytes, count, moment } from '../../format.ts'
import { type Place, usePlace } from '../../session.tsx'
import { pretty } from './body.ts'

const maxHeight = 480

const pathOf = ({ base }: Place, id: string) => `${base}/requests/${encodeURIComponent(id)}/content`

/** The logged content of a request, once `isWanted`: reading it is audited. */
export function useContent({ id, content }: RequestDetail, isWanted: boolean) {
  const place = usePlace()
  return useQuery({
    queryKey: [place.id, 'requests', 'content', id],
    queryFn: ({ signal }) => call<RequestContent>(pathOf(place, id), { signal }),
    enabled: isWanted && content !== null && !content.deleted && place.may('manage'),
    // One look is one entry of the audit log.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    gcTime: 0,
    retry: false,
  })
}

/** What a request sent and was answered, if it was logged. `query`: its content; `onShow` reads it. */
export function Content({
  request,
  query,
  isShown,
  onShow,
}: {
  request: RequestDetail
  query: UseQueryResult<RequestContent>
  isShown: boolean
  onShow: () => void
}) {
  const { content } = request
  return (
    <Section title="Input and output" id="content">
      {content === null ? <NotLogged request={request} /> : <Logged content={content} />}
      {content !== null && !content.deleted && (
        <Access request={request} query={query} isShown={isShown} onShow={onShow} />
      )}
    </Section>
  )
}

function NotLogged({ request: { key_id: key } }: { request: RequestDetail }) {
  const { home, may } = usePlace()
  return (
    <Text size="sm" c="dimmed">
      The input and output of this request are not logged.{' '}
      {may('manage') && key !== null ? (
        <Anchor component={Link} href={`${home}/keys/${key}?tab=logging`} inherit>
          Log those of this key for a while
        </Anchor>
      ) : (
        'An admin of the organisation can log those of a key for a while.'
      )}
    </Text>
  )
}

function Logged({ content }: { content: ContentFacts }) {
  if (content.deleted)
    return (
      <Text size="sm" c="dimmed">
        They were logged, and deleted since. The audit log says by whom.
      </Text>
    )
  const { redactions } = content
  return (
    <Text size="sm" c="dimmed">
      Input {bytes(content.input_bytes)}, output {bytes(content.output_bytes)}. Kept until {moment(content.expires_at)}.
      {redactions > 0 &&
        ` ${count(redactions)} secret or personal ${redactions === 1 ? 'value was' : 'values were'} removed.`}
    </Text>
  )
}

function Access({ request, query, isShown, onShow }: Parameters<typeof Content>[0]) {
  const { may } = usePlace()
  if (!may('manage'))
    return (
      <Text size="sm" c="dimmed" mt={4}>
        Only admins of the organisation can view them.
      </Text>
    )
  if (!isShown)
    return (
      <Group mt="sm" gap="sm">
        <Button size="compact-sm" variant="default" onClick={onShow}>
          Show input and output
        </Button>
        <Text size="xs" c="dimmed">
          The audit log records that you viewed them.
        </Text>
      </Group>
    )
  if (query.error) return <Failure error={query.error} />
  if (!query.data) return <Loading />
  return <Texts request={request} content={query.data} />
}

function Texts({ request, content: { input, output } }: { request: RequestDetail; content: RequestContent }) {
  const facts = request.content!
  const texts = [
    { name: 'Input', text: input, isCut: facts.input_truncated },
    { name: 'Output', text: output, isCut: facts.output_truncated },
  ]
  return (
    <Stack gap="sm" mt="sm">
      <Tabs defaultValue="Input" keepMounted={false}>
        <Tabs.List>
          {texts.map(({ name }) => (
            <Tabs.Tab key={name} value={name}>
              {name}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {texts.map(({ name, text, isCut }) => (
          <Tabs.Panel key={name} value={name} pt="sm">
            {isCut && (
              <Alert color="yellow" mb="sm">
                Only the beginning was kept.
              </Alert>
            )}
            {text === null ? (
              <Text size="sm" c="dimmed">
                No output was logged: there was none, or it is a file.
              </Text>
            ) : (
              <Box mah={maxHeight} style={{ overflowY: 'auto' }}>
                <CodeBox code={pretty(text)} label={name.toLowerCase()} />
              </Box>
            )}
          </Tabs.Panel>
        ))}
      </Tabs>
      <Delete request={request} />
    </Stack>
  )
}

function Delete({ request }: { request: RequestDetail }) {
  const place = usePlace()
  const queries = useQueryClient()
  const [isAsked, setAsked] = useState(false)
  const remove = useMutation({
    mutationFn: () => call(pathOf(place, request.id), { method: 'DELETE' }),
    onSuccess: () => {
      setAsked(false)
      notifications.show({ title: 'Input and output deleted', message: 'The record of the request itself stays.' })
      void queries.invalidateQueries({ queryKey: [place.id, 'requests', 'one'] })
    },
  })
  return (
    <>
      <Button size="compact-sm" variant="light" color="red" w="fit-content" onClick={() => setAsked(true)}>
        Delete input and output
      </Button>
      {isAsked && (
        <Confirm
          title="Delete input and output"
          action="Delete"
          pending={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsked(false)}
        >
          What this request sent and was answered is deleted now, for everybody. This cannot be undone.
        </Confirm>
      )}
    </>
  )
}
