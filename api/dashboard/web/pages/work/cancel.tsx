import { Button } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { call } from '../../api.ts'
import { Confirm } from '../../components/confirm.tsx'
import { usePlace } from '../../session.tsx'

/** Cancels a job or a batch after asking; what is shown of it follows. */
export function Cancel({
  what,
  sort,
  id,
  children,
}: {
  what: string
  sort: 'jobs' | 'batches'
  id: string
  /** What becomes of it and of its cost. */
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
      // A batch is cancelling until the lines at work are done.
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
          dismiss="Let it run"
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
