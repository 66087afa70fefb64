import { Route, Switch } from 'wouter'
import { usePlace } from '../../session.tsx'
import { RequestPage } from './detail.tsx'
import { RequestList } from './list.tsx'

export default function Requests() {
  const { home } = usePlace()
  return (
    <Switch>
      <Route path={`${home}/requests/:id`}>{({ id }) => <RequestPage key={id} id={id} />}</Route>
      <Route>
        <RequestList />
      </Route>
    </Switch>
  )
}
