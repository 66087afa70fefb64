import { Alert, Anchor, Button, Text } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import type { RequestDetail } from '../../../wire/requests.ts'
import { Confirm } from '../../components/confirm.tsx'
import { count, exactUsd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Client } from '../playground/client.ts'
import { factsOf } from '../playground/response-facts.ts'
import { paths } from './paths.ts'

type Replayed = { id: string | null; costUsd: number | null }

/** Sends the logged input of a request again, with the same key, once that was confirmed. */
export function Replay({ request, body }: { request: RequestDetail; body: object }) {
  const { base, home } = usePlace()
  const [isAsked, setAsked] = useState(false)
  const path = paths[request.type]
  const replay = useMutation({
    mutationFn: async (): Promise<Replayed> => {
      const startedMs = performance.now()
      const response = await new Client(base, request.key_id!).request(path!, { body: { ...body, stream: false } })
      await response.text()
      const { generationId, costUsd } = factsOf(response, startedMs)
      return { id: generationId, costUsd }
    },
    onSuccess: () => setAsked(false),
  })
  if (path === undefined || request.key_id === null) return null
  const { redactions = 0 } = request.content ?? {}
  return (
    <>
      <Button variant="default" onClick={() => setAsked(true)}>
        Replay
      </Button>
      {replay.data && (
        <Alert color="green" title="The request was sent again" w="100%">
          {replay.data.costUsd !== null && `It cost ${exactUsd(replay.data.costUsd)}. `}
          {replay.data.id !== null && (
            <Anchor component={Link} href={`${home}/requests/${replay.data.id}`} inherit>
              Open the new request
            </Anchor>
          )}
        </Alert>
      )}
      {isAsked && (
        <Confirm
          title="Replay this request"
          action="Send again"
          danger={false}
          pending={replay.isPending}
          error={replay.error}
          onConfirm={() => replay.mutate()}
          onClose={() => setAsked(false)}
        >
          The logged input is sent again with the key {request.key?.name}, without streaming.{' '}
          {request.environment === 'test'
            ? 'It is a test key, so this is free.'
            : `The first time it cost ${exactUsd(request.cost_usd)}; this time is charged as well.`}
          {redactions > 0 && (
            <Text size="sm" mt="xs">
              {count(redactions)} removed values are sent as placeholders.
            </Text>
          )}
        </Confirm>
      )}
    </>
  )
}
