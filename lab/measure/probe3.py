from load.scenarios import install, shared_writes, wakeups
from load.hop import NAME, Hop
def guest(spec):
    for rate, load, size, queues, mode in spec["cases"]:
        hop = Hop(max(queues, 2))
        install(spec["contender"], rate, max(queues, 2))
        for q in range(queues):
            hop.stream(q, mode=mode, rate=load*rate/queues, size=size)
        hop.meter(rate, from_s=0.05)
        b = shared_writes(); wk = wakeups()
        secs = 0.2
        got = hop.run(secs)
        w = shared_writes() - b
        yield {"rate": rate, "load": load, "size": size, "q": queues, "mode": mode, "pps": round(got["packets"]/got["seconds"]), "wake": round((wakeups()-wk)/(got["packets"]*secs/(secs-0.05)),3), "w/pkt": round(w/(got["packets"]*secs/(secs-0.05)),3)}
        hop.remove()
