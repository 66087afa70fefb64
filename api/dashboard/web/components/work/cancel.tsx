import { Button } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'
import { Confirm } from '../confirm.tsx'

/** Cancels a job or a batch after a confirmation, then refetches it. */
export function Cancel({
  what,
  sort,
  id,
  children,
}: {
  what: string
  sort: 'jobs' | 'batches'
  id: string
  /** The consequences, including the cost. */
  children: ReactNode
}) {
  const place = usePlace()
  const queries = useQueryClient()
  const [asking, setAsking] = useState(false)
  const cancel = useMutation({
    mutationFn: () => call<{ status: string }>(`${place.base}/${sort}/${id}/cancel`, { method: 'POST' }),
    onSuccess: answer => {
      queries.setQueryData([place.id, sort, 'one', id], answer)
      void queries.invalidateQueries({ queryKey: [place.id, sort, 'list'] })
      // A batch is `cancelling` until its running lines have ended.
      notifications.show({ title: `The ${what} is ${answer.status}`, message: id })
      setAsking(false)
    },
  })
  return (
    <>
      <Button variant="default" onClick={() => setAsking(true)}>
        Cancel {what}
      </Button>
      {asking && (
        <Confirm
          title={`Cancel this ${what}?`}
          action={`Cancel ${what}`}
          dismiss="Keep it running"
          pending={cancel.isPending}
          error={cancel.error}
          onConfirm={() => cancel.mutate()}
          onClose={() => setAsking(false)}
        >
          {children}
        </Confirm>
      )}
    </>
  )
}
